import type { LuaScripts } from '../../../lib/stores/redis/lua-scripts.js';

/** What a fault is aimed at: a script of the store by its name, any other command in capitals, or whatever comes. */
export type Target = keyof LuaScripts | Uppercase<string> | 'any';

/** What befalls one command on its way to the server and back. */
export type AimedFault =
  /** The connection breaks before the command reaches the server. */
  | 'lose the request'
  /** The server executes, and the connection breaks in the place of the reply. */
  | 'lose the reply'
  /** Neither the command nor any later one arrives; the connection stays open. */
  | 'swallow the request'
  /** The server executes, and neither this reply nor any later one arrives; the connection stays open. */
  | 'swallow the reply'
  /** This reply never arrives, and the later ones do: each comes in the place of the one before it. */
  | 'skip the reply'
  /** This reply arrives twice: each later one comes in the place of the next. */
  | 'repeat the reply'
  /** The command, and what follows it, comes late to the server. */
  | { readonly requestDelayMs: number }
  /** The reply, and what follows it, comes late to the client. */
  | { readonly replyDelayMs: number }
  | Capture;

/** The command is taken off the wire; its connection breaks, or stays open and silent. */
export interface Capture {
  readonly capture: (words: readonly Buffer[]) => void;
  readonly then: 'break' | 'silence';
}

export interface AimOptions {
  /**
   * Which of the commands that match, counted from 1.
   *
   * @defaultValue 1
   */
  readonly nth?: number;
  /**
   * How many commands are hit, from that one on.
   *
   * @defaultValue 1
   */
  readonly times?: number;
}

/** A fault that waits for its command. */
export class Aim {
  /** How many commands it has hit so far. */
  hits = 0;
  /** Resolves at the first hit: the command has come, or its reply has. */
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

  /** Whether the command of this name is one to hit. */
  takes(name: string): boolean {
    const { nth = 1, times = 1 } = this.options;
    if (this.target !== 'any' && this.target !== name) return false;
    this.matched += 1;
    return this.matched >= nth && this.matched < nth + times;
  }

  /** The command was not executed after all, for the server had forgotten the script: its copy is the one. */
  giveBack(): void {
    this.matched -= 1;
  }

  note(): void {
    this.hits += 1;
    this.onHit();
  }
}
