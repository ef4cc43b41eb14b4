import type { Arguments, Keys, ReplyReceiver } from './redis-link.js';
import type { ReplyOrder } from './reply-order.js';

/** What sends commands on one connection, and reports their replies. Keys get the prefix of the link. */
export interface Commands {
  readonly order: ReplyOrder;
  evalsha(sha1: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void;
  eval(text: string, keys: Keys, args: Arguments, receiver: ReplyReceiver): void;
  get(key: string, receiver: ReplyReceiver): void;
  set(key: string, value: readonly Buffer[], expiryMs: number, receiver: ReplyReceiver): void;
  scan(cursor: string, match: string, count: number, receiver: ReplyReceiver): void;
  info(receiver: ReplyReceiver): void;
}

export interface WaitingCommands extends Commands {
  wait(count: number, timeoutMs: number, receiver: ReplyReceiver): void;
}

/** The reply to SET: whether the value is there, the command after it finds out. */
export const IGNORED: ReplyReceiver = {
  isOwn: () => true,
  onReply: () => undefined,
  onError: () => undefined,
};
