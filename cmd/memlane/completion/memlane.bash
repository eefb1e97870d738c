# Completes memlane commands in Bash: source <(memlane completion bash)

_memlane() {
  # Bash can split words at = and : too. Join the pieces that have no blank between them.
  local line=${COMP_LINE:0:COMP_POINT} words=('') last=0 i
  for ((i = 0; i < COMP_CWORD; i++)); do
    words[last]+=${COMP_WORDS[i]}
    line=${line#*"${COMP_WORDS[i]}"}
    if [[ $line == [[:blank:]]* ]]; then
      line=${line#"${line%%[![:blank:]]*}"}
      words[++last]=''
    fi
  done
  words[last]+=$line

  COMPREPLY=()
  local answer reply begun=${words[last]} cut='' breaks=${COMP_WORDBREAKS//[^=:]/}
  # If memlane fails or is not installed, Bash completes file names.
  answer=$(command memlane completion --word="$begun" -- "${words[@]:1:last-1}" 2>/dev/null) || return 0
  compopt +o bashdefault +o default 2>/dev/null
  # Bash replaces only the piece after the last split.
  [[ -z $breaks ]] || cut=${begun%"${begun##*[$breaks]}"}
  while IFS=$'\t' read -r reply _; do
    [[ -z $reply ]] || COMPREPLY+=("${reply#"$cut"}")
  done <<<"$answer"
}

complete -o bashdefault -o default -F _memlane memlane
