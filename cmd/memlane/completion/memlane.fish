# Completes memlane commands in fish: memlane completion fish | source

# Sets __memlane_words to the candidates at the cursor. If memlane fails or is not installed, fish completes file names.
function __memlane_lists
    command -q memlane; or return
    set -l before (commandline -opc)
    set -l begun (commandline -ct | string unescape)
    set -g __memlane_words (command memlane completion --word="$begun" -- $before[2..] 2>/dev/null)
end

complete -c memlane -n __memlane_lists -f -a '$__memlane_words'
