import type { ReplyReceiver } from '../link/redis-link.js';
import type { LinkFailure } from '../link/send-failure.js';
import type { ScriptArguments } from './script-arguments.js';

/** What is sent in the place of a script. */
export interface Question {
  send(asked: Asked): void;
  /** By default, the reply has the nonce. */
  isOwn?(reply: unknown): boolean;
  /** Whether the reply leaves it to the script, which is sent then. */
  isOpen?(reply: unknown): boolean;
  /**
   * After a failure: sends something else at once, if that helps, or leaves it to the script.
   * @returns whether something was sent.
   */
  sendAgain?(failure: LinkFailure, asked: Asked): boolean;
}

/** A command in transit, as its question sees it. */
export interface Asked extends ReplyReceiver {
  /** Whether the caller still waits for the reply. */
  readonly isInFlight: boolean;
  /** Of the script. */
  readonly args: ScriptArguments;
  /** Of this send: its reply has it. */
  newNonce(): string;
  /** From the next attempt on, sends the script. */
  leaveToScript(): void;
  /** Sends the script now. */
  sendScript(): void;
}
