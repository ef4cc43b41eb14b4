import { ContentNotComparableError } from '../../../core/record/canonical-json.js';
import { isObject } from '../../../core/options/option-checks.js';
import type { Form, FormFile, ParsedRequest } from './form.js';

/** A file from multer, with any storage. */
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
 * The form that multer, or one of its ports to Fastify, has parsed; `undefined` without one.
 * @param isBound - one of Nest's interceptors that call multer has processed the request.
 * @throws {@link ContentNotComparableError} for another parser's files, and bytes neither in memory nor on disk.
 */
export function multerForm(
  { body, file, files }: ParsedRequest,
  isBound: boolean,
): Form | undefined {
  const uploaded = isObject(file) ? [file] : isObject(files) ? Object.values(files).flat() : [];
  if (uploaded.length === 0) {
    // Only a form parser makes a body without a prototype, or an empty list of files.
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

/** Other parsers use other names for a file's field and name, and store the fields elsewhere. */
function otherParser(): ContentNotComparableError {
  return new ContentNotComparableError(
    'A form has files that multer has not parsed. Parse it with multer, or give a function as the option "fingerprint" that returns the parts of the form to compare.',
  );
}

function formFile({ mimetype, buffer, path }: MulterFile, filename: string): FormFile {
  const content = buffer instanceof Uint8Array ? buffer : path;
  if (!(content instanceof Uint8Array) && typeof content !== 'string') {
    throw new ContentNotComparableError(
      'The bytes of an uploaded file are neither in memory nor on disk. Give a function as the option "fingerprint" that returns what the storage knows about them, such as a digest.',
    );
  }
  return { filename, mediaType: typeof mimetype === 'string' ? mimetype : undefined, content };
}

function isBare(body: unknown): boolean {
  return isObject(body) && Object.getPrototypeOf(body) === null;
}
