#compdef memlane
# Completes memlane commands in zsh: source <(memlane completion zsh)

_memlane() {
  local answer line word
  local -a words_and_docs
  # If memlane fails or is not installed, zsh completes file names.
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

# zsh runs a file in fpath for each completion. A sourced file registers the function.
if [[ ${funcstack[1]-} == _memlane ]]; then
  _memlane "$@"
else
  compdef _memlane memlane
fi
