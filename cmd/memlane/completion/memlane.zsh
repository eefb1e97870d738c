#compdef memlane
# Completes memlane's words in zsh: source <(memlane completion zsh)

_memlane() {
  local answer line word
  local -a words_and_docs
  # Where memlane lists nothing, or is not there, zsh looks for files.
  if ! answer=$(command memlane completion --word="${(Q)PREFIX}" -- "${(@Q)words[2,CURRENT-1]}" 2>/dev/null); then
    [[ $PREFIX != -*=* ]] || compset -P '*='
    _files
    return
  fi
  for line in "${(@f)answer}"; do
    word=${line%%$'\t'*}
    words_and_docs+=("${word//:/\\:}${${line#"$word"}/$'\t'/:}")
  done
  [[ -z $answer ]] || _describe memlane words_and_docs
}

# As a file in fpath it is run to complete; sourced, it says what it completes.
if [[ ${funcstack[1]-} == _memlane ]]; then
  _memlane "$@"
else
  compdef _memlane memlane
fi
