/** The arguments are wrong: the usage follows the message. */
export class UsageError extends Error {
  readonly code = 'idempotency_options_invalid';
}

/** The server could not do what was asked of it. */
export class ServerFailure extends Error {
  constructor(
    message: string,
    readonly exitCode = 2,
  ) {
    super(message);
  }
}

/** The exit code where it may not be known whether what was asked for was done. */
export const MAY_BE_DONE = 3;
