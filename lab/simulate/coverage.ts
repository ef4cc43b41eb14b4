/** How often what happened, by groups. As JSON, it can be kept and summed up. */
export type Counts = Record<string, Record<string, number>>;

export class Coverage {
  readonly counts: Counts = {};

  count(group: string, name: string, times = 1): void {
    const names = (this.counts[group] ??= {});
    names[name] = (names[name] ?? 0) + times;
  }

  add(counts: Counts): void {
    for (const [group, names] of Object.entries(counts)) {
      for (const [name, times] of Object.entries(names)) this.count(group, name, times);
    }
  }

  of(group: string, name: string): number {
    return this.counts[group]?.[name] ?? 0;
  }

  /** A line for each group, the most frequent first; of pairs and other long lists, how many there are, and the rarest. */
  lines(): string[] {
    return Object.entries(this.counts)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([group, names]) => {
        const all = Object.entries(names).sort(([, one], [, other]) => other - one);
        const shown = all.map(([name, times]) => `${name} ${times}`);
        const isLong = shown.length > 24;
        const text = isLong
          ? `${shown.length} kinds, the rarest ${shown.slice(-6).join(', ')}`
          : shown.join(', ');
        return `${group}: ${text}`;
      });
  }
}
