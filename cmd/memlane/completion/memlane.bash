# Completes memlane's words in Bash: source <(memlane completion bash)

_memlane() {
  # Bash may cut words at = and : too: pieces without a blank between them are one word.
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
  # Where memlane lists nothing, or is not there, Bash looks for files.
  answer=$(command memlane completion --word="$begun" -- "${words[@]:1:last-1}" 2>/dev/null) || return 0
  compopt +o bashdefault +o default 2>/dev/null
  # Bash puts what is behind the last cut into its place.
  [[ -z $breaks ]] || cut=${begun%"${begun##*[$breaks]}"}
  while IFS=$'\t' read -r reply _; do
    [[ -z $reply ]] || COMPREPLY+=("${reply#"$cut"}")
  done <<<"$answer"
}

complete -o bashdefault -o default -F _memlane memlane
