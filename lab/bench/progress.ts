/** One line for each part: while it runs on a terminal what it is at, in the end how long it took. */
export class Progress {
  private readonly startedAt = performance.now();

  constructor(private readonly name: string) {}

  get seconds(): number {
    return Math.round((performance.now() - this.startedAt) / 1000);
  }

  show(text: string): void {
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${this.name}: ${text}`);
  }

  end(): void {
    const clear = process.stderr.isTTY ? '\r\u001b[K' : '';
    process.stderr.write(`${clear}${this.name}: ${this.seconds} s\n`);
  }
}
