/** The arguments are wrong: the usage follows the message. */
export class UsageError extends Error {}
