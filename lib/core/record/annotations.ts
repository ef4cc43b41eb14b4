import { createHmac, createSecretKey, hash, type KeyObject } from 'node:crypto';
import { hostname } from 'node:os';
import { checkNames, throwOptionError } from '../options/option-checks.js';
import { flag, of, type Group } from '../options/option-schema.js';
import { serviceText, tagged } from './record-key.js';

/** What each record says of its attempts, for operators, besides what the protocol needs. */
export interface AnnotateOptions {
  /** The name of the operation, by which lists can be filtered. @defaultValue true */
  readonly operation?: boolean;
  /**
   * Which process has, or had, the record: `true` for the host's name and the process id, or a text of 1 to 64 of
   * `A-Z`, `a-z`, `0-9`, `.`, `_`, `:`, `@`, `/` and `-`, such as the name of a pod.
   * @defaultValue true
   */
  readonly holder?: boolean | string;
  /**
   * A tag of the client's key, by which its records are found where the caller is unknown: HMAC-SHA-256 with a secret of at
   * least 32 characters, cut to 64 bits. Of several secrets, the first makes new tags, and all are searched.
   * @defaultValue none
   */
  readonly tags?: { readonly secret: string | readonly string[] };
}

export interface ResolvedAnnotateOptions {
  readonly operation: boolean;
  readonly holder: boolean | string;
  /** See {@link AnnotateOptions.tags}. */
  readonly tags?: { readonly secret: string | readonly string[] };
}

const HOLDER = /^[\w.:@/-]{1,64}$/;
const MIN_SECRET = 32;
const MAX_SECRETS = 3;

export const ANNOTATE: Group<AnnotateOptions, ResolvedAnnotateOptions> = {
  fields: {
    operation: flag(true),
    holder: of(
      'true, false, or a text of 1 to 64 of A-Z, a-z, 0-9, ., _, :, @, / and -',
      (value) => typeof value === 'boolean' || (typeof value === 'string' && HOLDER.test(value)),
      { default: true },
    ),
    tags: {
      defaultText: 'none',
      check: checkTags,
      read: ({ secret }) => ({ secret: [secret].flat() }),
    },
  },
  isSwitched: true,
  places: ['module'],
};

/** Shows no value: it may be a secret, in the place of the object. */
function checkTags(option: string, value: unknown): void {
  checkNames(`"${option}"`, value, new Set(['secret']));
  const { secret } = value as { readonly secret?: unknown };
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret];
  const areTexts = secrets.every(
    (each) => typeof each === 'string' && each.isWellFormed() && each.length >= MIN_SECRET,
  );
  const areDifferent = new Set(secrets).size === secrets.length;
  if (areTexts && areDifferent && secrets.length > 0 && secrets.length <= MAX_SECRETS) return;
  throwOptionError(
    `${option}.secret`,
    `a text of at least ${String(MIN_SECRET)} characters, or 1 to ${String(MAX_SECRETS)} different ones, the first for new tags. Make one by: openssl rand -base64 32`,
    typeof secret,
  );
}

/** An attempt, as far as a record says. */
export interface AttemptAnnotations {
  /** The process that had the record: see {@link AnnotateOptions.holder}. */
  readonly holder?: string;
  /** Milliseconds from the begin until the outcome was stored, or the key released, by the attempt itself. */
  readonly tookMs?: number;
  /** As `trace` of an event. */
  readonly trace?: string;
}

/** An attempt that another one has replaced. */
export interface EarlierAttempt extends AttemptAnnotations {
  /** When it began, by the store's clock in milliseconds since 1970. */
  readonly beganAt: number;
  /** Why another one could begin: its lease had expired, or the key was released. */
  readonly end: 'expired' | 'released';
}

/** What a record says besides what the protocol needs. All of it is omitted where the option `annotate` is off. */
export interface RecordAnnotations extends AttemptAnnotations {
  readonly operation?: string;
  /** Those that were replaced, the last one first, as many as there was room for. */
  readonly earlier: readonly EarlierAttempt[];
}

/** In characters, of the name in a note: a longer one ends in a digest of it. */
const MAX_OPERATION = 64;
const DIGEST_LENGTH = 11;
const MAX_TRACE = 64;
/** 64 bits, 11 characters of base64url. */
const TAG_BYTES = 8;

/**
 * Writes the note of a record: `~h<holder>~t<trace>;~o<operation>~k<tag>~<`. What is in front of the `;` is the attempt's, what
 * follows is the record's. After the `<` the store writes earlier attempts. The end of an attempt puts `~d<ms, base 36>` in front.
 */
export class Annotations {
  private readonly holder: string;
  private readonly keys: readonly KeyObject[];
  private readonly prefix: string;
  /** By name: there are as many as the application has operations. */
  private readonly operations = new Map<string, string>();

  constructor(
    private readonly options: ResolvedAnnotateOptions,
    service: string | undefined,
    /** Of a trace for which there is no room. */
    private readonly failed: (error: Error) => void,
  ) {
    const { holder, tags } = options;
    this.holder = holder === false ? '' : `~h${holder === true ? processName() : holder}`;
    this.prefix = serviceText(service);
    this.keys = [tags?.secret ?? []].flat().map(keyOf);
  }

  get hasTags(): boolean {
    return this.keys.length > 0;
  }

  /** @param key - the client's. */
  noteOf(operation: string, key: string, trace: string | undefined): string {
    const [secret] = this.keys;
    const tag = secret === undefined ? '' : `~k${this.tag(secret, key)}`;
    const named = this.options.operation ? this.operationPart(operation) : '';
    return `${this.holder}${trace === undefined ? '' : this.tracePart(trace)};${named}${tag}~<`;
  }

  /** What the notes of this key's records contain: one of these. */
  textsOfKey(key: string): string[] {
    return this.keys.map((secret) => `~k${this.tag(secret, key)}~`);
  }

  /** What the notes of this operation's records contain; `undefined`: they do not say it. */
  textOfOperation(operation: string): string | undefined {
    return this.options.operation ? `~o${shortened(operation)}~` : undefined;
  }

  private operationPart(operation: string): string {
    let part = this.operations.get(operation);
    if (part === undefined) {
      part = `~o${shortened(operation)}`;
      if (this.operations.size < 10_000) this.operations.set(operation, part);
    }
    return part;
  }

  private tracePart(trace: string): string {
    const text = escaped(trace);
    if (text.length <= MAX_TRACE) return `~t${text}`;
    this.failed(
      new TypeError(
        `With "annotate", traceOf() must return at most ${String(MAX_TRACE)} characters, of which each %, ~, ;, < and * counts as three.`,
      ),
    );
    return '';
  }

  private tag(secret: KeyObject, key: string): string {
    const text = `nestjs-idempotency/2/key-tag\0${this.prefix}${tagged(key)}`;
    return createHmac('sha256', secret).update(text).digest().toString('base64url', 0, TAG_BYTES);
  }
}

/** What the end of an attempt writes in front of its note. */
export function noteOfEnd(tookMs: number): string {
  return `~d${Math.max(0, Math.round(tookMs)).toString(36)}`;
}

/** A note that {@link Annotations} has written; any other one is a trace. */
const ANNOTATED = /^((?:~[^;~<]*)*);((?:~[^;~<]*)*)(?:<(.*))?$/;

/** The trace in a note. */
export function traceIn(note: string | undefined): string | undefined {
  if (note === undefined) return undefined;
  const parts = ANNOTATED.exec(note);
  return parts === null ? note : attemptIn(parts[1]).trace;
}

export function annotationsIn(note: string | undefined): RecordAnnotations {
  const parts = note === undefined ? null : ANNOTATED.exec(note);
  if (parts === null) return { earlier: [] };
  const [, ofAttempt, ofRecord, history = ''] = parts;
  const operation = partsIn(ofRecord).get('o');
  return {
    ...(operation !== undefined && { operation }),
    ...attemptIn(ofAttempt),
    earlier: history.split('<').flatMap(earlierIn),
  };
}

const EARLIER = /^(\d{1,16})([ir])(.*)$/;

function earlierIn(text: string): EarlierAttempt[] {
  const [, began, how, rest] = EARLIER.exec(text) ?? [];
  if (began === undefined) return [];
  const end = how === 'r' ? 'released' : 'expired';
  return [{ beganAt: Number(began), end, ...attemptIn(rest) }];
}

function attemptIn(text: string | undefined): AttemptAnnotations {
  const parts = partsIn(text);
  const [holder, took, trace] = [parts.get('h'), parts.get('d'), parts.get('t')];
  const tookMs = took === undefined ? NaN : Number.parseInt(took, 36);
  return {
    ...(holder !== undefined && { holder }),
    ...(Number.isSafeInteger(tookMs) && { tookMs }),
    ...(trace !== undefined && { trace }),
  };
}

/** By their letter; the first of each. */
function partsIn(text = ''): ReadonlyMap<string, string> {
  const parts = new Map<string, string>();
  for (const part of text.split('~')) {
    const letter = part.slice(0, 1);
    if (letter !== '' && !parts.has(letter)) parts.set(letter, unescaped(part.slice(1)));
  }
  return parts;
}

function shortened(operation: string): string {
  const text = escaped(operation);
  if (text.length <= MAX_OPERATION) return text;
  const start = text.slice(0, MAX_OPERATION - DIGEST_LENGTH - 1).replace(/%.?$/, '');
  return `${start}*${hash('sha256', operation, 'base64url').slice(0, DIGEST_LENGTH)}`;
}

/** What a note may not have, and what has a meaning in it. */
const ESCAPED = /[^!-~]|[%~;<*]/gu;

function escaped(text: string): string {
  return text.replace(ESCAPED, (character) =>
    Buffer.from(character).toString('hex').replace(/../g, '%$&'),
  );
}

function unescaped(text: string): string {
  try {
    // For a terminal: whoever can write to the store can write a note.
    return decodeURIComponent(text).replace(/\p{Cc}/gu, '\ufffd');
  } catch {
    // Cut, at the end of a note.
    return text;
  }
}

function keyOf(secret: string): KeyObject {
  return createSecretKey(Buffer.from(secret));
}

function processName(): string {
  const host = hostname().replace(/[^\w.-]/g, '_');
  return `${host.slice(0, 53)}:${String(process.pid)}`;
}
