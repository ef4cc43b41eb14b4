/** The plan of a run, or `undefined` with what is wrong with its arguments written to standard error. */
export function planFromCommandLine<Plan>(
  planOf: (args: readonly string[]) => Plan,
  usage: string,
): Plan | undefined {
  try {
    return planOf(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
    process.exitCode = 2;
    return undefined;
  }
}

/** The arguments as they were given, and the seed that they left open. */
export function replayOf({ seed }: { readonly seed: number }): string[] {
  const args = process.argv.slice(2);
  const at = args.indexOf('--report');
  const others = args.filter((_, index) => at === -1 || (index !== at && index !== at + 1));
  return others.includes('--seed') ? others : [...others, '--seed', String(seed)];
}
