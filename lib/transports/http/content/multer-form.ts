import { ContentNotComparableError } from '../../../core/record/canonical-json.js';
import type { Form, FormFile, ParsedRequest } from './form.js';

/** A file as multer hands it out, whichever storage it was given. */
interface MulterFile {
  readonly fieldname?: unknown;
  readonly originalname?: unknown;
  readonly mimetype?: unknown;
  /** From the memory storage. */
  readonly buffer?: unknown;
  /** From the disk storage. */
  readonly path?: unknown;
}

/**
 * The form that multer has parsed, on Express or, by one of its ports, on Fastify; `undefined` where it
 * has not.
 *
 * @param isBound - one of Nest's interceptors that call multer has seen the request.
 * @throws {@link ContentNotComparableError} for a file whose bytes are neither in memory nor on disk, and
 * for files from another parser.
 */
export function multerForm(
  { body, file, files }: ParsedRequest,
  isBound: boolean,
): Form | undefined {
  const uploaded = isObject(file) ? [file] : isObject(files) ? Object.values(files).flat() : [];
  if (uploaded.length === 0) {
    // Nobody but who parses forms makes a body without a prototype, or a list of no files.
    const isParsed = isBound || Array.isArray(files) || isBare(body);
    return isParsed && isObject(body) ? { fields: body, files: {} } : undefined;
  }
  if (!isObject(body)) throw otherParser();
  const byName = Object.create(null) as Record<string, FormFile[]>;
  for (const one of uploaded as MulterFile[]) {
    const { fieldname, originalname } = one;
    if (typeof fieldname !== 'string' || typeof originalname !== 'string') throw otherParser();
    (byName[fieldname] ??= []).push(formFile(one, originalname));
  }
  return { fields: body, files: byName };
}

/** Other parsers name a file's field and its name differently, and keep the fields elsewhere. */
function otherParser(): ContentNotComparableError {
  return new ContentNotComparableError(
    'A form has files that multer has not parsed. Parse it with multer, or give a function as the option "fingerprint" that answers with what its parser knows of the form.',
  );
}

function formFile({ mimetype, buffer, path }: MulterFile, filename: string): FormFile {
  const content = buffer instanceof Uint8Array ? buffer : path;
  if (!(content instanceof Uint8Array) && typeof content !== 'string') {
    throw new ContentNotComparableError(
      'The bytes of an uploaded file are neither in memory nor on disk. Give a function as the option "fingerprint" that answers with what the storage knows of them.',
    );
  }
  return { filename, mediaType: typeof mimetype === 'string' ? mimetype : undefined, content };
}

function isBare(body: unknown): boolean {
  return isObject(body) && Object.getPrototypeOf(body) === null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
