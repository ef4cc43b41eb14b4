/** The arguments as they were given, and the seed that they left open. */
export function replayOf({ seed }: { readonly seed: number }): string[] {
  const args = process.argv.slice(2);
  const at = args.indexOf('--report');
  const others = args.filter((_, index) => at === -1 || (index !== at && index !== at + 1));
  return others.includes('--seed') ? others : [...others, '--seed', String(seed)];
}
