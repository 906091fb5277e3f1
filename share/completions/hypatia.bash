# Completion of hypatia, hypatiac and hypatia-egraph for bash. What there is to complete is asked of the command itself: with
# HYPATIA_HELP=rows its help has a line for each option, "short<tab>long<tab>value<tab>meaning".

# The commands of a tool that has some: "  run        run a plan ...".
_hypatia_commands() { "$1" --help 2> /dev/null | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'; }

_hypatia()
{
    local tool=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' value=''
    COMPREPLY=()
    # bash takes --target=cpu apart.
    if [ "$word" = = ]; then
        word=''
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [ "${tool##*/}" != hypatiac ]; then
        if [ "$COMP_CWORD" = 1 ]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_hypatia_commands "$tool") --help --version" -- "$word")
            return
        fi
        command=${COMP_WORDS[1]}
    fi
    local rows short long kind
    rows=$(HYPATIA_HELP=rows "$tool" ${command:+"$command"} --help 2> /dev/null)
    while IFS=$'\x1f' read -r short long kind _; do
        [ "$before" != "$short" ] && [ "$before" != "$long" ] || value=$kind
    done < <(tr '\t' '\037' <<< "$rows") # tabs in a row would be one
    case $value in
    *[A-Z]* | '') ;;
    *) mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$word") && return ;;
    esac
    case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(grep -o -e $'\t--[^\t]*' <<< "$rows" | tr -d '\t')" -- "$word") ;;
    @*) compopt -o filenames 2> /dev/null; mapfile -t COMPREPLY < <(compgen -f -P @ -- "${word#@}") ;;
    *) compopt -o filenames 2> /dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}

complete -F _hypatia hypatia hypatiac hypatia-egraph
