# Completion of cbf's commands, options and files for bash.  "make install" puts
# it where bash-completion looks; without that package, source it.

_cbf()
{
    local word=${COMP_WORDS[COMP_CWORD]}
    local before=${COMP_WORDS[COMP_CWORD-1]}
    local items='-0 --null -f --field -d --delimiter -e --item -j --jobs
        -q --quiet'
    local plan='-n --capacity -p --rate'
    local options i
    COMPREPLY=()

    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W 'add build check count-of create export freeze
            help histogram import info merge remove size verify
            --help --version' -- "$word"))
        return
    fi
    case ${COMP_WORDS[1]} in
        add)       options="$items -u --new -s --stream -a --atomic" ;;
        build)     options="$items $plan -m --mode" ;;
        check)     options="$items -v --invert-match -c --count" ;;
        count-of)  options=$items ;;
        create)    options="$plan -m --mode" ;;
        export)    options='-o --output -m --mode' ;;
        freeze)    options= ;;
        histogram) options= ;;
        import)    options='-m --mode -w --mutable' ;;
        info)      options='-J --json -P --prometheus' ;;
        merge)     options='-o --output -m --mode' ;;
        remove)    options="$items -s --stream" ;;
        size)      options="$plan -b --bytes -J --json" ;;
        verify)    options='-q --quiet' ;;
        help)
            if [ "$COMP_CWORD" -eq 2 ]; then
                COMPREPLY=($(compgen -W 'add build check count-of create
                    export freeze help histogram import info merge remove size
                    verify' -- "$word"))
            fi
            return ;;
        *) return ;;
    esac

    # Behind "--" there are files only.
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [ "${COMP_WORDS[i]}" = -- ]; then
            before=--
            break
        fi
    done
    case $before in
        -f|--field|-d|--delimiter|-e|--item|-n|--capacity|-p|--rate|-b|--bytes)
            return ;;
        -j|--jobs)
            COMPREPLY=($(compgen -W '1 2 4 8' -- "$word"))
            return ;;
        -m|--mode)
            COMPREPLY=($(compgen -W '0600 0640 0644 0444' -- "$word"))
            return ;;
    esac
    if [[ $word == -* && $before != -- ]]; then
        COMPREPLY=($(compgen -W "$options -h --help" -- "$word"))
        return
    fi
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
}

complete -F _cbf cbf
