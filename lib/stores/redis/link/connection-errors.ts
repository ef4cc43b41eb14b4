import { types } from 'node:util';
import { failureOfClient, withoutArguments, withRemedy, type LinkFailure } from './send-failure.js';

/** How a user passes settings of TLS, such as `ca`, to the client: for a remedy. */
type TlsOption = (settings: string) => string;

/** What an operating system says of a connection that the other side has ended. */
export const ENDS = ['ECONNRESET', 'EPIPE'] as const;

/** Whether the error says only that the connection has ended, and not why. */
export function isEnd(error: unknown): boolean {
  return types.isNativeError(error) && 'code' in error && ENDS.some((code) => code === error.code);
}

/** Errors of the parsers of ioredis 5 and 6 for bytes that are not the Redis protocol. */
const FOREIGN = /^(?:Protocol error, got|Unknown RESP type)/;

/** Whether the server does not speak the Redis protocol. */
export function isForeign(error: unknown): boolean {
  return types.isNativeError(error) && FOREIGN.test(error.message);
}

/** What an error of a client says, which the server has not replied: as text, with the remedy if there is one. */
export function describeConnectionError(error: Error, tlsOption: TlsOption): string {
  const { reason: tlsReason } = error as { readonly reason?: unknown };
  // OpenSSL's message names lines of its own source.
  const text =
    typeof tlsReason === 'string' && error.message.includes('SSL routines')
      ? `TLS: ${tlsReason}`
      : withoutArguments(error.message);
  const reason = text === '' ? errorCode(error) : text;
  if (isForeign(error)) {
    return `The server does not speak the Redis protocol (${reason.replace(/\. Please report this\.$/, '')}). Check host and port: they may belong to another server, such as an HTTP server, or to the TLS port of Redis, which requires rediss://.`;
  }
  return withRemedy(reason, tlsRemedyOf(error, tlsOption));
}

const CLIENT_CERTIFICATE = (option: TlsOption) =>
  `The server requires a client certificate that it trusts: ${option('cert, key')}.`;
const AUTHORITY = (option: TlsOption) =>
  `Pass the authority that signed the server's certificate: ${option('ca')}.`;

const TLS_REMEDIES: readonly (readonly [
  pattern: RegExp,
  remedy: string | ((option: TlsOption) => string),
])[] = [
  [
    /alert (?:certificate required|bad certificate|unknown ca|handshake failure)/,
    CLIENT_CERTIFICATE,
  ],
  [/wrong version number|packet length too long/, 'Does this port not speak TLS? Use redis://.'],
  [/^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)$/, AUTHORITY],
  [/^CERT_HAS_EXPIRED$/, "Renew the server's certificate."],
  [
    /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    (option) => `Connect to a name of the certificate, or set ${option('servername')}.`,
  ],
];

function tlsRemedyOf(error: Error, option: TlsOption): string | undefined {
  const { code, reason } = error as { readonly code?: unknown; readonly reason?: unknown };
  const remedy = TLS_REMEDIES.find(([pattern]) =>
    [code, reason].some((text) => typeof text === 'string' && pattern.test(text)),
  )?.[1];
  return typeof remedy === 'function' ? remedy(option) : remedy;
}

/** A failed connection to a host name with several addresses is an AggregateError without a message. */
function errorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name;
}

/** Why a link can send nothing, by the last error of its connection. */
export interface ConnectionFailures {
  /** A wrong password or address does not fix itself within a deadline. */
  readonly unavailableAfter: (error: Error | undefined) => LinkFailure;
  /** The same once the connection is closed for good. */
  readonly closedAfter: (error: Error | undefined) => LinkFailure;
}

/**
 * @param failureOf - what an error says of the command that it ended.
 * @param describe - an error that says it all, as text, or the state with its error.
 */
export function connectionFailures(
  failureOf: (error: unknown) => LinkFailure,
  describe: (state: string, error: Error) => string,
): ConnectionFailures {
  const stateAfter = (state: string, error: Error | undefined) =>
    error === undefined ? state : describe(state, error);
  return {
    unavailableAfter: (error) => {
      const isLasting = isForeign(error) || failureOf(error).kind === 'misconfigured';
      const kind = isLasting ? 'misconfigured' : 'not_executed';
      return failureOfClient(kind, stateAfter('there is no connection', error));
    },
    closedAfter: (error) =>
      failureOfClient('rejected', stateAfter('the connection is closed', error)),
  };
}
