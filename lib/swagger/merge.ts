import type { OpenAPIObject } from '@nestjs/swagger';

/** Adds a header's parameter, or completes the application's own of that name. */
export function mergeParameter(theirs: readonly Parameter[], ours: Own<Parameter>): Parameter[] {
  const isSame = (parameter: Parameter): parameter is Own<Parameter> =>
    !isReference(parameter) &&
    parameter.in === 'header' &&
    parameter.name.toLowerCase() === ours.name.toLowerCase();
  if (!theirs.some(isSame)) return [...theirs, ours];
  return theirs.map((parameter) => {
    if (!isSame(parameter)) return parameter;
    const { schema, ...rest } = ours;
    // Schema and content exclude each other.
    if (parameter.content !== undefined) return { ...rest, ...parameter };
    const own = parameter.schema;
    const isElsewhere = own !== undefined && isReference(own);
    return { ...ours, ...parameter, schema: isElsewhere ? own : { ...schema, ...own } };
  });
}

/**
 * Adds headers and media types to a documented response. Existing documentation of the same header or media type takes
 * precedence.
 */
export function mergeResponse(ours: Own<Response>, theirs: Response | undefined): Response {
  if (theirs === undefined) return ours;
  if (isReference(theirs)) return theirs;
  const merged = { ...ours, ...theirs };
  // Swagger's default description is empty.
  if (theirs.description === '') merged.description = ours.description;
  if (ours.headers !== undefined) {
    const named = new Set(Object.keys(theirs.headers ?? {}).map((name) => name.toLowerCase()));
    const added = Object.entries(ours.headers).filter(([name]) => !named.has(name.toLowerCase()));
    merged.headers = { ...Object.fromEntries(added), ...theirs.headers };
  }
  if (ours.content !== undefined) merged.content = { ...ours.content, ...theirs.content };
  return merged;
}

// Derived from the only one of these types that all supported versions export.
export type PathItem = OpenAPIObject['paths'][string];
export type Operation = NonNullable<PathItem['post']>;
export type Schema = Own<NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>[string]>;
export type Parameter = NonNullable<Operation['parameters']>[number];
export type Response = NonNullable<Operation['responses'][string]>;
export type Headers = NonNullable<Own<Response>['headers']>;

/** Without references to elsewhere in the document. */
export type Own<Item> = Exclude<Item, Reference>;

interface Reference {
  $ref: string;
}

function isReference(value: object): value is Reference {
  return '$ref' in value;
}
