import { ContentNotComparableError } from '../../core/canonical-json.js';
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
 * @throws {@link ContentNotComparableError} for a file whose bytes are neither in memory nor on disk.
 */
export function multerForm({ body, file, files }: ParsedRequest): Form | undefined {
  const uploaded = isObject(file) ? [file] : isObject(files) ? Object.values(files).flat() : [];
  // A form without files shows by its body alone: no other parser makes it without a prototype.
  if (uploaded.length === 0 && !isBare(body)) return undefined;
  const byName = Object.create(null) as Record<string, FormFile[]>;
  for (const one of uploaded as MulterFile[]) {
    const name = String(one.fieldname);
    (byName[name] ??= []).push(formFile(one));
  }
  return { fields: isObject(body) ? body : {}, files: byName };
}

function formFile({ originalname, mimetype, buffer, path }: MulterFile): FormFile {
  const content = buffer instanceof Uint8Array ? buffer : path;
  if (!(content instanceof Uint8Array) && typeof content !== 'string') {
    throw new ContentNotComparableError(
      'The bytes of an uploaded file are neither in memory nor on disk. Give a function as the option "fingerprint" that answers with what the storage knows of them.',
    );
  }
  return { filename: text(originalname), mediaType: text(mimetype), content };
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function isBare(body: unknown): boolean {
  return isObject(body) && Object.getPrototypeOf(body) === null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
