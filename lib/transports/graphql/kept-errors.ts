import { HttpException } from '@nestjs/common';
import type { ThrownValues } from '../call/outcome-format.js';
import { FieldError } from './field-error.js';

type Extensions = Readonly<Record<string, unknown>>;

/** An exception of Nest's, which its drivers tell to clients with status and response. */
interface KeptException {
  readonly status: number;
  readonly response: string | object;
  readonly message: string;
}

/** A `GraphQLError`, or any error with its `extensions`. */
interface KeptError {
  readonly message: string;
  readonly extensions: Extensions;
}

/**
 * Errors by which a resolver answers its client, kept so that a repetition is told the same. Of all others, whose message
 * an application may hide from its clients, the fact is repeated alone.
 */
export const KEPT_ERRORS: ThrownValues = {
  valueOf(error) {
    const value = keptException(error) ?? keptError(error);
    return value && { value };
  },
  errorOf(value) {
    const kept = value as KeptException | KeptError;
    if ('extensions' in kept) return new FieldError(kept.message, kept.extensions);
    const { response, status, message } = kept;
    return Object.assign(new HttpException(response, status), { message });
  },
};

function keptException(error: unknown): KeptException | undefined {
  if (!(error instanceof HttpException)) return undefined;
  return { status: error.getStatus(), response: error.getResponse(), message: error.message };
}

function keptError(error: unknown): KeptError | undefined {
  if (!(error instanceof Error) || !('extensions' in error)) return undefined;
  const { message, extensions } = error;
  return typeof extensions === 'object' && extensions !== null
    ? { message, extensions: extensions as Extensions }
    : undefined;
}
