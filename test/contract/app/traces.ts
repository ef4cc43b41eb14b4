import type { LoggerService } from '@nestjs/common';

/** All that the application leaves behind outside its responses. */
export class Traces implements LoggerService {
  readonly lines: string[] = [];

  constructor(private readonly recordNames: () => Promise<string[]>) {}

  log(...line: unknown[]): void {
    this.lines.push(line.map(String).join(' '));
  }

  error(...line: unknown[]): void {
    this.log(...line);
  }

  warn(...line: unknown[]): void {
    this.log(...line);
  }

  /** Lines of the log, and the names under which the store keeps its records, if it names them. */
  async all(): Promise<{ readonly lines: string[]; readonly names: string[] }> {
    return { lines: this.lines, names: await this.recordNames() };
  }
}
