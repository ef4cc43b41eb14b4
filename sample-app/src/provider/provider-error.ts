export type ProviderErrorCode =
  | 'card_declined'
  | 'refund_too_large'
  | 'provider_down'
  | 'provider_timeout'
  | 'attempt_superseded';

/** The error of the provider's client, independent of HTTP. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';

  constructor(
    readonly code: ProviderErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
