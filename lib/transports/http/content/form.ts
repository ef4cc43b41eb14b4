/** The parts of a form's file that can count; `undefined` if the parser does not keep them. */
export interface FormFile {
  readonly filename: string | undefined;
  readonly mediaType: string | undefined;
  /** The bytes, or the path of a file that contains them. */
  readonly content: Uint8Array | string;
}

/** The parts of a multipart body by name. The order of different names does not count. */
export interface Form {
  readonly fields: Readonly<Record<string, unknown>>;
  /** The files of each name in order, with `null` in place of a field. */
  readonly files: Readonly<Record<string, readonly (FormFile | null)[]>>;
}

/** A request after its parts were parsed. */
export interface ParsedRequest {
  readonly body?: unknown;
  readonly file?: unknown;
  readonly files?: unknown;
  /** From @fastify/multipart. */
  readonly isMultipart?: () => boolean;
}
