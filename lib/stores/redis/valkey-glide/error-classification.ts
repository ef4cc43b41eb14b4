import { types } from 'node:util';
import {
  failureOfClient,
  failureOfReply,
  NotSentError,
  withoutArguments,
  type LinkFailure,
  type SendFailure,
} from '../link/send-failure.js';

/** An error that the server has replied, in the words of the server. */
export class ErrorReply extends Error {
  override readonly name = 'ErrorReply';
}

/** Errors that say nothing of a reply, whatever their text: GLIDE puts the texts of others into it. */
const NO_REPLIES = new Set(['TimeoutError', 'ConnectionError', 'ClosingError']);

/** How GLIDE names the codes of the protocol. The others keep their name. */
const CODES: Readonly<Record<string, string>> = {
  ResponseError: 'ERR',
  NoScriptError: 'NOSCRIPT',
  PermissionDenied: 'NOPERM',
  BusyLoadingError: 'LOADING',
  ReadOnly: 'READONLY',
  Moved: 'MOVED',
  Ask: 'ASK',
  TryAgain: 'TRYAGAIN',
  ClusterDown: 'CLUSTERDOWN',
  MasterDown: 'MASTERDOWN',
  CrossSlot: 'CROSSSLOT',
};

const OF_PROTOCOL = /\bsignalled by the server: - (\w+): (.*)$/s;
const OF_OTHERS = /^(?:.* - )?([A-Z][A-Z0-9]+): (.*)$/s;

/** What a call has failed with, as the server has replied it if it has: GLIDE rewrites that. */
export function translated(error: unknown): unknown {
  if (!types.isNativeError(error) || NO_REPLIES.has(error.name)) return error;
  const [, name = '', text = ''] =
    OF_PROTOCOL.exec(error.message) ?? OF_OTHERS.exec(error.message) ?? [];
  if (name === '') return error;
  return new ErrorReply(`${CODES[name] ?? name} ${text}`, { cause: error });
}

/** What GLIDE refuses to send. */
const UNSENT = /Reached maximum inflight requests|Unable to execute requests; the client is closed/;

/** What an error says of the command that it ended. */
export function failureOf(error: unknown): LinkFailure {
  return error instanceof ErrorReply
    ? failureOfReply(error.message)
    : failureOfClient(kindOf(error), describeFailure(error));
}

function kindOf(error: unknown): SendFailure {
  if (error instanceof NotSentError) return 'not_executed';
  // Any other one may follow a send: after a time-out of GLIDE, the server still runs the command.
  return types.isNativeError(error) && UNSENT.test(error.message) ? 'not_executed' : 'unknown';
}

function describeFailure(error: unknown): string {
  if (!types.isNativeError(error)) return String(error);
  // A client that is closed with commands in flight gives them an error without a text.
  return withoutArguments(error.message === '' ? error.name : error.message);
}
