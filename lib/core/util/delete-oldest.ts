/** Deletes the entry that was set first, if one has become too many. */
export function deleteOldest(map: Map<string, unknown>, most: number): void {
  if (map.size <= most) return;
  for (const [oldest] of map) {
    map.delete(oldest);
    break;
  }
}
