export interface RefundDto {
  readonly payment: string;
  readonly amount: number;
}
