# The step of action.yml, which sets the variables in capitals. Slower is its output, and no failure of the job.
set -uo pipefail
head="$(git rev-parse --verify --end-of-options "$HEAD^{commit}")" && base="$(git merge-base -- "$BASE" "$head")" || {
  echo "error: '$BASE' and '$HEAD' have no common commit here: give the inputs base and head, and actions/checkout" \
    "fetch-depth: 0" >&2
  exit 2
}
folder="$RUNNER_TEMP/commits"
rm -rf "$folder" # of an earlier step
mkdir -p "$folder"
options=(--workers "$WORKERS" --minutes "$MINUTES" --json "$folder/commits.json" --markdown "$folder/comment.md")
[ -z "$PYTHON" ] || options+=(--python "$PYTHON")
[ -z "$REQUIREMENTS" ] || options+=(--requirements "$REQUIREMENTS")
[ -z "$ARMS" ] || options+=(--arms "$ARMS")
split="$(printf '%s\n' "$ARGUMENTS" | xargs -r printf '%s\n' && echo .)" || {
  echo "error: these arguments end within quotes: $ARGUMENTS" >&2
  exit 2
}
words=()
while IFS= read -r word; do words+=("$word"); done < <(printf '%s' "${split%.}")
"$GITHUB_ACTION_PATH/rwi" compare-commits "$base" "$head" "$SCRIPT" "${options[@]}" -- "${words[@]}"
status=$?
echo "status=$status" >> "$GITHUB_OUTPUT"
[ ! -f "$folder/comment.md" ] || cat "$folder/comment.md" >> "$GITHUB_STEP_SUMMARY"
[ "$status" -eq 3 ] || exit "$status"
