# The step of action.yml, which sets the variables in capitals. Slower is its output, and no failure of the job.
set -uo pipefail
base="$(git merge-base "$BASE" "$HEAD")" || {
  echo "error: $BASE and $HEAD have no common commit here: give actions/checkout fetch-depth: 0" >&2
  exit 2
}
folder="$RUNNER_TEMP/commits"
mkdir -p "$folder"
options=(--workers "$WORKERS" --minutes "$MINUTES" --json "$folder/commits.json" --markdown "$folder/comment.md")
[ -z "$PYTHON" ] || options+=(--python "$PYTHON")
[ -z "$REQUIREMENTS" ] || options+=(--requirements "$REQUIREMENTS")
[ -z "$ARMS" ] || options+=(--arms "$ARMS")
words=()
while IFS= read -r word; do words+=("$word"); done < <(printf '%s' "$ARGUMENTS" | xargs -r printf '%s\n')
"$GITHUB_ACTION_PATH/rwi" compare-commits "$base" "$HEAD" "$SCRIPT" "${options[@]}" -- "${words[@]}"
status=$?
echo "status=$status" >> "$GITHUB_OUTPUT"
[ ! -f "$folder/comment.md" ] || cat "$folder/comment.md" >> "$GITHUB_STEP_SUMMARY"
[ "$status" -eq 3 ] || exit "$status"
