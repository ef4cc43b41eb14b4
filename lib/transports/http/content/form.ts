/** A file of a form, as far as it counts. */
export interface FormFile {
  /** `undefined` where the parser has not kept it. */
  readonly filename: string | undefined;
  /** `undefined` where the parser has not kept it. */
  readonly mediaType: string | undefined;
  /** Its bytes, or the path of the file that has them. */
  readonly content: Uint8Array | string;
}

/** The parts of a multipart body under their names; the order of parts of different names does not count. */
export interface Form {
  readonly fields: Readonly<Record<string, unknown>>;
  /** Files in their order under each name; `null` where a field stands between them. */
  readonly files: Readonly<Record<string, readonly (FormFile | null)[]>>;
}

/** What a request may carry once its parts have been parsed. */
export interface ParsedRequest {
  readonly body?: unknown;
  readonly file?: unknown;
  readonly files?: unknown;
  /** From @fastify/multipart. */
  readonly isMultipart?: () => boolean;
}
