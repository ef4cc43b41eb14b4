import type { OpenAPIObject } from '@nestjs/swagger';

type OwnParameter = Exclude<Parameter, Reference>;
type OwnResponse = Exclude<Response, Reference>;

/** Adds a header's parameter, or completes the application's own of that name. */
export function mergeParameter(theirs: readonly Parameter[], ours: OwnParameter): Parameter[] {
  const isSame = (parameter: Parameter) =>
    !isReference(parameter) &&
    parameter.in === 'header' &&
    parameter.name.toLowerCase() === ours.name.toLowerCase();
  if (!theirs.some(isSame)) return [...theirs, ours];
  return theirs.map((parameter) => {
    if (!isSame(parameter)) return parameter;
    const own = parameter as OwnParameter;
    // Schema and content exclude each other.
    if (own.content !== undefined) {
      const { schema, ...rest } = ours;
      return { ...rest, ...own };
    }
    return { ...ours, ...own, schema: mergeSchema(ours.schema, own.schema) };
  });
}

function mergeSchema(
  ours: OwnParameter['schema'],
  theirs: OwnParameter['schema'],
): NonNullable<OwnParameter['schema']> {
  return theirs !== undefined && isReference(theirs) ? theirs : { ...ours, ...theirs };
}

/**
 * Adds headers and media types to a documented response. Existing documentation of the same header or media type takes
 * precedence.
 */
export function mergeResponse(ours: OwnResponse, theirs: Response | undefined): Response {
  if (theirs === undefined) return ours;
  if (isReference(theirs)) return theirs;
  const merged = { ...ours, ...theirs };
  // Swagger's default description is empty.
  if (theirs.description === '') merged.description = ours.description;
  const headers = mergeHeaders(ours.headers, theirs.headers);
  if (headers !== undefined) merged.headers = headers;
  if (ours.content !== undefined) merged.content = { ...ours.content, ...theirs.content };
  return merged;
}

function mergeHeaders(ours: Headers | undefined, theirs: Headers | undefined): Headers | undefined {
  if (ours === undefined || theirs === undefined) return theirs ?? ours;
  const named = new Set(Object.keys(theirs).map((name) => name.toLowerCase()));
  const added = Object.entries(ours).filter(([name]) => !named.has(name.toLowerCase()));
  return { ...Object.fromEntries(added), ...theirs };
}

// Derived from the only one of these types that all supported versions export.
export type PathItem = OpenAPIObject['paths'][string];
export type Operation = NonNullable<PathItem['post']>;
export type Components = NonNullable<OpenAPIObject['components']>;
export type Schema = NonNullable<Components['schemas']>[string];
export type Parameter = NonNullable<Operation['parameters']>[number];
export type Response = NonNullable<Operation['responses'][string]>;
export type Headers = NonNullable<Exclude<Response, Reference>['headers']>;

export interface Reference {
  $ref: string;
}

function isReference(value: object): value is Reference {
  return '$ref' in value;
}
