/** How many names are offered where one may be short for several. */
const AT_MOST = 4;

/** From how many letters on a name may be short for a longer one. */
const SHORTEST_PART = 4;

/** Which of the known names may have been meant by one that is unknown: mostly one, and none where nothing is near. */
export function nearestNames(name: string, known: Iterable<string>): string[] {
  // Longer than any option: not worth the time.
  if (name.length > 64) return [];
  const meant = name.toLowerCase();
  const names = [...known].map((each) => ({
    each,
    distance: editDistance(meant, each.toLowerCase()),
  }));
  const limit = Math.max(1, Math.floor(name.length / 3));
  const least = Math.min(...names.map(({ distance }) => distance));
  if (least <= limit) {
    return names.filter(({ distance }) => distance === least).map(({ each }) => each);
  }
  if (name.length < SHORTEST_PART) return [];
  const longer = names.filter(({ each }) => each.toLowerCase().includes(meant));
  return longer.slice(0, AT_MOST).map(({ each }) => each);
}

/** Letters that are wrong, missing, too many, or in the wrong order (Damerau and Levenshtein). */
function editDistance(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const isSame = left[i - 1] === right[j - 1];
      const isSwapped = left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      row[j] = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped ? (beforeLast[j - 2] ?? 0) + 1 : Infinity,
      );
    }
    beforeLast = last;
    last = row;
  }
  return last[right.length] ?? 0;
}
