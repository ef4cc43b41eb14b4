import type { OpenAPIObject } from '@nestjs/swagger';

// Taken out of the one type of them that all supported versions export.
export type PathItem = OpenAPIObject['paths'][string];
export type Operation = NonNullable<PathItem['post']>;
export type Components = NonNullable<OpenAPIObject['components']>;
export type Schema = NonNullable<Components['schemas']>[string];
export type Parameter = NonNullable<Operation['parameters']>[number];
export type Response = NonNullable<Operation['responses'][string]>;
export type Headers = NonNullable<Exclude<Response, Reference>['headers']>;

/** What stands for something that is described elsewhere in the document. */
export interface Reference {
  $ref: string;
}

export function isReference(value: object): value is Reference {
  return '$ref' in value;
}
