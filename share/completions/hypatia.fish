# Completion of hypatia, hypatiac and hypatia-egraph for fish. What there is to complete is asked of the command itself: with
# HYPATIA_HELP=rows its help has a line for each option, "short<tab>long<tab>value<tab>meaning".

function __hypatia_complete
    set -l words (commandline -opc)
    set -l tool $words[1]
    if test (basename $tool) != hypatiac
        if test (count $words) = 1
            $tool --help 2>/dev/null | string replace -rf '^  ([a-z-]+)  +(.*)' '$1\t$2'
            printf '%s\n' --help --version
            return
        end
        set tool $tool $words[2]
    end
    set -l word (commandline -ct)
    set -l before $words[-1]
    set -l given ''
    if string match -q -- '--*=*' $word
        set before (string replace -r '=.*' '' -- $word)
        set given $before=
    end
    for row in (env HYPATIA_HELP=rows $tool --help 2>/dev/null)
        set -l field (string split \t -- $row)
        test (count $field) = 4; or continue
        if test -n "$field[3]"; and contains -- $before $field[1] $field[2]
            string match -q -r '[A-Z]' -- $field[3]; or printf '%s\n' $given(string split '|' -- $field[3])
        end
        string match -q -- '--*' $field[2]; and printf '%s\t%s\n' $field[2] $field[4]
        test -z "$field[1]"; or printf '%s\t%s\n' $field[1] $field[4]
    end
end

for tool in hypatia hypatiac hypatia-egraph
    complete -c $tool -a '(__hypatia_complete)'
end
