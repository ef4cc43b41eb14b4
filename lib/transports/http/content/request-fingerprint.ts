import type { ExecutionContext } from '@nestjs/common';
import {
  bytesOrJson,
  canonicalJson,
  checkDepth,
  ContentNotComparableError,
} from '../../../core/record/canonical-json.js';
import { selectMembers } from '../../../core/record/content-selection.js';
import { fingerprint, NO_FINGERPRINT } from '../../../core/record/fingerprint.js';
import type { Fingerprint } from '../../../core/record/record.js';
import { IdempotencyOptionsError } from '../../../core/errors/errors.js';
import { askOption } from '../../common/ask-option.js';
import { chosenContent } from '../../common/chosen-content.js';
import { fieldValue } from '../../common/header-fields.js';
import type { RequestContent } from '../../common/request-content.js';
import type { FingerprintOption } from '../../common/request-options.js';
import { formContent } from './form-content.js';

/** Computes the fingerprint of a request for one route; asynchronously for a form, whose files are read. */
export type RequestFingerprint = (
  content: RequestContent,
  context: ExecutionContext,
) => Fingerprint | Promise<Fingerprint>;

/**
 * Chooses once per route how its requests are compared (contract C31–C48). Each fingerprint contains the operation's
 * name: with `key.uniqueFor: 'principal'`, requests to different routes differ. The returned function throws
 * {@link ContentNotComparableError} for content without a canonical form.
 * @param hasHost - the controller is bound to a host, whose parameters count (contract C87b).
 */
export function requestFingerprint(
  operation: string,
  option: FingerprintOption,
  isMulterBound: boolean,
  hasHost: boolean,
): RequestFingerprint {
  if (option === false) return () => NO_FINGERPRINT;
  if (typeof option === 'function') {
    return (content, context) => {
      const chosen = askOption('fingerprint', operation, () => option(content, context));
      return fingerprint([operation, chosenContent(chosen, 'fingerprint', operation)]);
    };
  }
  const ofForm = (context: ExecutionContext, select: Selection) =>
    formContent(context.switchToHttp().getRequest(), select, isMulterBound);
  const ofWholeForm: FormText = (context) => ofForm(context, everything);
  const hostOf: OthersOf = hasHost ? hostParameters : () => [];
  if (option === 'bytes') return ofRequest(operation, rawBytes, ofWholeForm, hostOf);
  if (option === 'canonical') return ofRequest(operation, bodyText, ofWholeForm, hostOf);
  const { include, exclude = [], headers = [] } = option;
  const select: Selection = (members) => {
    checkDepth(members);
    return selectMembers(members, include, exclude);
  };
  const names = headers.map((name) => name.toLowerCase()).sort();
  return ofRequest(
    operation,
    (content) => bodyText(content, select),
    (context) => ofForm(context, select),
    (content, context) => [...hostOf(content, context), ...fieldsOf(content, names)],
  );
}

type Selection = (members: unknown) => unknown;

type FormText = (context: ExecutionContext) => Promise<string>;

type OthersOf = (content: RequestContent, context: ExecutionContext) => readonly string[];

const everything: Selection = (members) => members;

/** @param othersOf - returns what else counts as content: host parameters, header fields. */
function ofRequest(
  operation: string,
  bodyOf: (content: RequestContent) => string | Uint8Array,
  formOf: FormText,
  othersOf: OthersOf,
): RequestFingerprint {
  return (content, context) => {
    const others = othersOf(content, context);
    const ofBody = (body: string | Uint8Array) => ofContent(operation, content, body, others);
    if (!isForm(content)) return ofBody(bodyOf(content));
    return formOf(context).then(ofBody);
  };
}

function isForm({ mediaType, body, hasUnreadBody }: RequestContent): boolean {
  return mediaType.startsWith('multipart/') && (body !== undefined || hasUnreadBody);
}

function ofContent(
  operation: string,
  { method, path, query, mediaType }: RequestContent,
  body: string | Uint8Array,
  others: readonly string[],
): Fingerprint {
  const parts = [operation, method, path, canonicalQuery(query), mediaType, body];
  return fingerprint(others.length === 0 ? parts : [...parts, ...others]);
}

/** All parameters of `@Controller({ host: ':tenant.example.com' })`, as one string. */
function hostParameters(_: RequestContent, context: ExecutionContext): readonly string[] {
  const { hosts = {} } = context.switchToHttp().getRequest<{ readonly hosts?: object }>();
  return [canonicalJson(hosts)];
}

const REPLACEMENT_CHARACTER = encodeURIComponent('\ufffd');

/** The query as a multiset by name: only the order of equal names counts (contract C38, C39). */
function canonicalQuery(query: string): string {
  if (query === '') return '';
  const members = new URLSearchParams(query);
  members.sort();
  const text = members.toString();
  // All octets that are not UTF-8 decode to the same character, so the raw query counts too.
  return text.includes(REPLACEMENT_CHARACTER) ? `${text}\n${query}` : text;
}

function bodyText(content: RequestContent, select = everything): string | Uint8Array {
  checkIsRead(content);
  const { body } = content;
  // Bytes, strings and numbers have no members to select, so they count as a whole.
  const hasMembers = typeof body === 'object' && body !== null && !(body instanceof Uint8Array);
  return bytesOrJson(hasMembers ? select(body) : body);
}

function checkIsRead({ hasUnreadBody }: RequestContent): void {
  if (!hasUnreadBody) return;
  throw new ContentNotComparableError(
    'The request has a body that no parser has read before the interceptors. Register a parser for its media type, or give a function as the option "fingerprint".',
  );
}

function rawBytes(content: RequestContent): Uint8Array {
  const { rawBody, body } = content;
  if (rawBody !== undefined) return rawBody;
  checkIsRead(content);
  if (body === undefined) return new Uint8Array();
  if (body instanceof Uint8Array) return body;
  if (typeof body === 'string') {
    throw new ContentNotComparableError(
      'The option "fingerprint" is \'bytes\', but a parser has converted the request\'s bytes to a string. For this media type, register a parser that returns bytes, or that stores them as "rawBody".',
    );
  }
  throw new IdempotencyOptionsError(
    'The option "fingerprint" is \'bytes\', but the request has no raw bytes. Create the application with { rawBody: true }. A custom body parser must store them as "rawBody". On Nest 11 with Fastify, app.useBodyParser() turns off Nest\'s parsers, which store them.',
  );
}

function fieldsOf({ headers }: RequestContent, names: readonly string[]): string[] {
  return names.map((name) => {
    const value = fieldValue(headers, name);
    return value === undefined ? name : `${name}:${value}`;
  });
}
