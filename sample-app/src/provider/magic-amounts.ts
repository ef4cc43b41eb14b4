/** Amounts that make the simulated provider fail, like the test cards of real providers. */
export const magicAmounts = {
  /** The card is declined: 402, an outcome that is kept and replayed. */
  declined: 4020,
  /** The provider is down: 503, an outcome that is not kept, so that a retry runs again. */
  providerDown: 5000,
  /** The provider hangs until the attempt is aborted. */
  hangs: 9999,
} as const;
