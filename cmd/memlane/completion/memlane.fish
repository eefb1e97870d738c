# Completes memlane's words in fish: memlane completion fish | source

# Lists what may stand at the cursor in __memlane_words. Where it fails, as memlane lists nothing or is not there, fish
# looks for files.
function __memlane_lists
    command -q memlane; or return
    set -l before (commandline -opc)
    set -l begun (commandline -ct | string unescape)
    set -g __memlane_words (command memlane completion --word="$begun" -- $before[2..] 2>/dev/null)
end

complete -c memlane -n __memlane_lists -f -a '$__memlane_words'
