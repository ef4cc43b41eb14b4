/** Amounts at which the pretended provider misbehaves, as test cards do at real ones. */
export const magicAmounts = {
  /** The card is declined: 402, an answer that is kept and replayed. */
  declined: 4020,
  /** The provider is down: 503, an answer that is not kept, so that a retry tries again. */
  providerDown: 5000,
  /** The provider never answers, until the attempt is aborted. */
  hangs: 9999,
} as const;
