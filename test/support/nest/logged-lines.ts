import type { LoggerService } from '@nestjs/common';

export interface LoggedLine {
  readonly level: string;
  readonly message: string;
  /** The other arguments: a stack, and last the context. */
  readonly rest: readonly unknown[];
}

/** A logger that keeps its lines. */
export class LoggedLines implements LoggerService {
  readonly lines: LoggedLine[] = [];

  /** The lines of the library. */
  get own(): string[] {
    return this.lines
      .filter(({ rest }) => rest.at(-1) === 'Idempotency')
      .map(({ level, message }) => `${level}: ${message}`);
  }

  log = this.writes('log');
  error = this.writes('error');
  warn = this.writes('warn');
  debug = this.writes('debug');
  verbose = this.writes('verbose');
  fatal = this.writes('fatal');

  private writes(level: string) {
    return (message: unknown, ...rest: unknown[]) =>
      void this.lines.push({ level, message: String(message), rest });
  }
}
