import { CLIENT_OPTIONS } from '../../internals/client.js';
import { OPTIONS } from '../../internals/nest/options.js';
import {
  CREDENTIALS,
  NO_CREDENTIALS,
  PER_EXCHANGE,
  PER_EXCHANGE_FAMILIES,
  problems,
  STATUS_HEADER,
} from '../../internals/transports/http.js';
import { generatedPage, table } from './markdown.js';
import type { TextModule } from './option-texts.js';

const HEAD = ['Header', 'Option', 'Meaning'];

/** The page of all headers. */
export function headerTexts(): TextModule[] {
  const parts = [
    '## The server reads',
    table(HEAD, read()),
    '## The server writes',
    table(HEAD, written()),
    '## The server never replays',
    'These belong to a single exchange. A replay has those of its own exchange, whatever the first response had:',
    names([...PER_EXCHANGE, ...PER_EXCHANGE_FAMILIES.map((family) => `${family}*`)]),
    `Nor does it store or replay credentials, which it knows by the ends of their names: ${namesThatEnd(CREDENTIALS)}. A place in a list or the name of a lock is none, and is replayed: ${namesThatEnd(NO_CREDENTIALS)}. \`http.neverReplayHeaders\` names further headers.`,
    '## `idempotentFetch` sends and reads',
    table(HEAD, ofClient()),
  ];
  return [generatedPage('docs/reference/headers.md', 'headers', parts)];
}

function names(list: readonly string[]): string {
  return list.map((name) => `\`${name}\``).join(', ');
}

function namesThatEnd(ends: readonly string[]): string {
  return names(ends.map((end) => `*${end}`));
}

function read(): string[][] {
  return [
    [
      `\`${defaultOf('key', 'from')}\``,
      '`key.from`',
      'The idempotency key: a structured-field String (`"k"`) or bare (`k`), by `key.syntax`; at most `key.maxLength` characters. Missing, malformed or present twice: 400.',
    ],
    [
      '`Prefer`',
      "`duplicates: 'wait'`",
      '`wait=N` shortens the time that a duplicate waits for the outcome, to N seconds (RFC 7240).',
    ],
    [
      '`Content-Type`',
      '`fingerprint`',
      'The media type, without its parameters, is part of the content that retries are compared by.',
    ],
    [
      '`Content-Length`, `Transfer-Encoding`',
      '`fingerprint`',
      'Whether the request has a body that nothing has read: then it cannot be compared, and is rejected.',
    ],
    [
      'any other',
      '`fingerprint.headers`',
      'Chosen by name: part of the content that retries are compared by.',
    ],
  ];
}

function written(): string[][] {
  const [type, language] = Object.values(problems.DOCUMENT_FIELDS);
  return [
    [
      `\`${defaultOf('http', 'replayHeader')}: true\``,
      '`http.replayHeader`',
      'The response is a replay. A first response never has it, whatever the handler sets.',
    ],
    [
      `\`${STATUS_HEADER}: unprotected\``,
      "`storeErrors.whenUnavailable: 'execute'`",
      'The operation ran without a record, because the store was unavailable: a retry runs it again.',
    ],
    [
      '`Retry-After`',
      '',
      'Whole seconds, at least 1, on each problem whose `retryable` is `true`.',
    ],
    [`\`Content-Type: ${type}\``, '', 'Of a problem document.'],
    [`\`Content-Language: ${language}\``, '', 'Of a problem document.'],
    ['`Content-Length`', '', 'Of a replay: the length of the stored body.'],
    [
      'what the handler added',
      '`http.replayHeaders`',
      'Stored with the outcome and replayed, except those below.',
    ],
  ];
}

function ofClient(): string[][] {
  const { keyHeader, replayHeader } = CLIENT_OPTIONS;
  return [
    [`\`${keyHeader[0]}\``, '`keyHeader`', 'Sent: the same key on every try of a call.'],
    [
      '`Content-Type`',
      '',
      'Sent: that of the body, which is encoded once, so that each try has the same bytes. Read: whether a response is a problem document.',
    ],
    [`\`${replayHeader[0]}\``, '`replayHeader`', 'Read: whether the response is a replay.'],
    ['`Retry-After`, `Date`', '', 'Read: how long to wait before the next try.'],
  ];
}

function defaultOf(group: 'key' | 'http', field: string): string {
  const { fields } = OPTIONS[group] as { fields: Record<string, { readonly default?: unknown }> };
  const value = fields[field]?.default;
  if (typeof value !== 'string') throw new Error(`${group}.${field} has no name as its default.`);
  return value;
}
