import { createHash } from 'node:crypto';

/** Lines between two updates of the digest. */
const CHUNK = 2_000;

/** All that happened, in order: choices, commands, replies, effects, responses. Kept as a digest, and as lines if asked for. */
export class History {
  private readonly hash = createHash('sha256');
  private chunk: string[] = [];
  private result: string | undefined;
  /** Called with each line. */
  onLine: ((line: string) => void) | undefined;

  constructor(private readonly time: () => number) {}

  add(...words: readonly (string | number | undefined)[]): void {
    const line = `${this.time().toFixed(3)} ${words.join(' ')}`;
    this.onLine?.(line);
    if (this.chunk.push(line) >= CHUNK) this.flush();
  }

  digest(): string {
    this.flush();
    this.result ??= this.hash.digest('hex');
    return this.result;
  }

  private flush(): void {
    if (this.chunk.length > 0) this.hash.update(`${this.chunk.join('\n')}\n`);
    this.chunk = [];
  }
}
