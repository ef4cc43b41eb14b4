import { createHash, hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import {
  canonicalJson,
  checkDepth,
  checkHoles,
  containersIn,
  ContentNotComparableError,
} from '../../../core/record/canonical-json.js';
import { fastifyForm } from './fastify-form.js';
import type { FormFile, ParsedRequest } from './form.js';
import { multerForm } from './multer-form.js';

/** A file as it is compared. Selections name its members: `photo.filename`. */
interface ComparedFile {
  readonly filename: string | undefined;
  readonly mediaType: string | undefined;
  readonly sha256: string;
}

/**
 * The compared content of a multipart request: its fields, and its files by name, media type and digest, independent of
 * the boundary (contract C47). Files are read, never copied.
 * @param select - selects the members that count; called for the fields and for the files.
 * @throws {@link ContentNotComparableError} if the form was not parsed before, or a file's bytes cannot be read.
 */
export async function formContent(
  request: ParsedRequest,
  select: (members: unknown) => unknown,
  isMulterBound: boolean,
): Promise<string> {
  const form = multerForm(request, isMulterBound) ?? fastifyForm(request);
  if (form === undefined) {
    throw new ContentNotComparableError(
      'A multipart request was not parsed before the idempotency interceptor. On Express, put @UseInterceptors(FileInterceptor(…)) below @Idempotent(). On Fastify, register @fastify/multipart with { attachFieldsToBody: true }. Otherwise, give a function as the option "fingerprint".',
    );
  }
  checkHoles(containersIn(form.fields));
  // Hooks may have added cycles, in which a selection would not end.
  checkDepth(form.fields);
  const files = Object.create(null) as Record<string, (ComparedFile | null)[]>;
  for (const [name, ofName] of Object.entries(form.files)) {
    const compared = (files[name] = [] as (ComparedFile | null)[]);
    for (const file of ofName) compared.push(file === null ? null : await comparedFile(file));
  }
  return canonicalJson([select(form.fields), select(files)]);
}

async function comparedFile({ filename, mediaType, content }: FormFile): Promise<ComparedFile> {
  const sha256 =
    typeof content === 'string'
      ? await digestOfFile(content)
      : hash('sha256', content, 'base64url');
  return { filename, mediaType: mediaType?.toLowerCase(), sha256 };
}

async function digestOfFile(path: string): Promise<string> {
  const digest = createHash('sha256');
  try {
    for await (const chunk of createReadStream(path)) digest.update(chunk as Buffer);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new ContentNotComparableError(
      'The path of an uploaded file does not exist: its storage keeps the file elsewhere. Give a function as the option "fingerprint" that returns what the storage knows about it, such as a digest.',
      { cause: error },
    );
  }
  return digest.digest('base64url');
}
