/** How many keys an objection names. */
const EXAMPLES = 3;

/** What a run is blamed for. */
export class Objections {
  /** What must not have happened; empty if all is well. */
  readonly all: string[] = [];
  /** Keys to inspect, some of each objection. */
  readonly suspects: string[] = [];

  /** What happened to these keys must not have happened to any. */
  to(what: string, keys: readonly string[]): void {
    if (keys.length === 0) return;
    const more = keys.length > EXAMPLES ? ', …' : '';
    this.say(`${keys.length} × ${what}: ${keys.slice(0, EXAMPLES).join(', ')}${more}`, keys);
  }

  /** @param keys - those that it is about, where there are any. */
  say(objection: string, keys: readonly string[] = []): void {
    this.all.push(objection);
    this.suspects.push(...keys.slice(0, EXAMPLES));
  }
}
