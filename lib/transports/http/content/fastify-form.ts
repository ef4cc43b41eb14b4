import { ContentNotComparableError } from '../../../core/record/canonical-json.js';
import type { Form, FormFile, ParsedRequest } from './form.js';

/** A part from @fastify/multipart with `attachFieldsToBody: true`. */
interface AttachedPart {
  readonly type: 'field' | 'file';
  readonly value?: unknown;
  readonly filename?: string;
  readonly mimetype: string;
  /** The file's bytes; absent if an `onFile` function has consumed them. */
  readonly _buf?: Uint8Array | null;
}

/**
 * The form that @fastify/multipart has attached to the body; `undefined` without one. With `attachFieldsToBody:
 * 'keyValues'`, files have neither name nor media type.
 * @throws {@link ContentNotComparableError} for a file whose bytes are missing.
 */
export function fastifyForm(request: ParsedRequest): Form | undefined {
  const { body } = request;
  if (request.isMultipart?.() !== true || typeof body !== 'object' || body === null)
    return undefined;
  const fields = Object.create(null) as Record<string, unknown>;
  const files = Object.create(null) as Record<string, (FormFile | null)[]>;
  for (const [name, attached] of Object.entries(body)) {
    const entries: unknown[] = Array.isArray(attached) ? attached : [attached];
    const ofName = entries.map((entry) => fileOf(entry, body));
    const ofFields = entries.map((entry, index) => (ofName[index] ? null : fieldOf(entry, body)));
    // A single part is not wrapped in a list, because a JSON field may itself be a list.
    fields[name] = Array.isArray(attached) ? ofFields : ofFields[0];
    if (ofName.some((file) => file !== null)) files[name] = ofName;
  }
  return { fields, files };
}

function fileOf(entry: unknown, body: object): FormFile | null {
  if (entry instanceof Uint8Array) {
    return { filename: undefined, mediaType: undefined, content: entry };
  }
  const isTaken = isPart(entry, body)
    ? entry.type === 'file' && !(entry._buf instanceof Uint8Array)
    : entry === undefined;
  if (isTaken) {
    throw new ContentNotComparableError(
      'The bytes of an uploaded file are not in the request body: "onFile" or a hook has taken them. Give a function as the option "fingerprint" that returns what to compare instead.',
    );
  }
  if (!isPart(entry, body) || !(entry._buf instanceof Uint8Array)) return null;
  return { filename: entry.filename, mediaType: entry.mimetype, content: entry._buf };
}

function fieldOf(entry: unknown, body: object): unknown {
  return isPart(entry, body) ? [entry.value, entry.mimetype] : entry;
}

/** A part refers to the body that it is attached to. JSON that a client sends in a field cannot. */
function isPart(entry: unknown, body: object): entry is AttachedPart {
  return typeof entry === 'object' && entry !== null && 'fields' in entry && entry.fields === body;
}
