import type { LuaScripts } from '../../internals/redis.js';

/** The target of a fault: a script of the store by its name, any other command in capitals, or any command. */
export type Target = keyof LuaScripts | Uppercase<string> | 'any';

/** What happens to one command on its way to the server and back. */
export type AimedFault =
  /** The connection breaks before the command reaches the server. */
  | 'lose the request'
  /** The server executes, and the connection breaks instead of the reply. */
  | 'lose the reply'
  /** Neither the command nor any later one arrives; the connection stays open. */
  | 'swallow the request'
  /** The server executes, and neither this reply nor any later one arrives; the connection stays open. */
  | 'swallow the reply'
  /** This reply never arrives, but the later ones do: each arrives in place of the one before it. */
  | 'skip the reply'
  /** This reply arrives twice: each later one arrives in place of the next. */
  | 'repeat the reply'
  /** The command, and what follows it, reaches the server late. */
  | { readonly requestDelayMs: number }
  /** The reply, and what follows it, reaches the client late. */
  | { readonly replyDelayMs: number }
  | Capture;

/** The command is taken off the wire; its connection breaks, or stays open and silent. */
export interface Capture {
  readonly capture: (words: readonly Buffer[]) => void;
  readonly then: 'break' | 'silence';
}

export interface AimOptions {
  /**
   * Which of the matching commands, counted from 1.
   *
   * @defaultValue 1
   */
  readonly nth?: number;
  /**
   * How many commands are affected, from that one on.
   *
   * @defaultValue 1
   */
  readonly times?: number;
}

/** A fault that waits for its command. */
export class Aim {
  /** How many commands it has affected so far. */
  hits = 0;
  /** Resolves at the first match: the command has arrived, or its reply has. */
  readonly hit: Promise<void>;
  private matched = 0;
  private onHit: () => void = () => undefined;

  constructor(
    private readonly target: Target,
    readonly fault: AimedFault,
    private readonly options: AimOptions,
  ) {
    this.hit = new Promise((resolve) => {
      this.onHit = resolve;
    });
  }

  /** Whether the command of this name matches. */
  takes(name: string): boolean {
    const { nth = 1, times = 1 } = this.options;
    if (this.target !== 'any' && this.target !== name) return false;
    this.matched += 1;
    return this.matched >= nth && this.matched < nth + times;
  }

  /** The command was not executed after all, because the server had forgotten the script: its copy is the one. */
  release(): void {
    this.matched -= 1;
  }

  note(): void {
    this.hits += 1;
    this.onHit();
  }
}
