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

/** A file as it is compared and as a selection sees it: `photo.filename` is the name of the file under `photo`. */
interface ComparedFile {
  readonly filename: string | undefined;
  readonly mediaType: string | undefined;
  readonly sha256: string;
}

/**
 * What counts of a multipart request: its fields, and its files by name, media type and digest, whatever
 * boundary the client drew (contract C47). Files are read, and never copied.
 *
 * @param select - what counts of the members of a form, called for the fields and for the files.
 * @param isMulterBound - one of Nest's interceptors that call multer has seen the request.
 * @throws {@link ContentNotComparableError} where nobody has parsed the form before the layer, or where
 * the bytes of a file are out of reach.
 */
export async function formContent(
  request: ParsedRequest,
  select: (members: unknown) => unknown,
  isMulterBound: boolean,
): Promise<string> {
  const form = multerForm(request, isMulterBound) ?? fastifyForm(request);
  if (form === undefined) {
    throw new ContentNotComparableError(
      'A multipart request has not been parsed before the layer. On Express, put @UseInterceptors(FileInterceptor(…)) below @Idempotent(); on Fastify, register @fastify/multipart with { attachFieldsToBody: true }; or give a function as the option "fingerprint".',
    );
  }
  checkHoles(containersIn(form.fields));
  // A selection would not come out of a circle, and hooks may have put anything there.
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
      'The path of an uploaded file leads nowhere: its storage keeps it elsewhere. Give a function as the option "fingerprint" that answers with what the storage knows of it.',
      { cause: error },
    );
  }
  return digest.digest('base64url');
}
