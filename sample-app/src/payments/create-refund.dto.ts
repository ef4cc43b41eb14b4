import { IsInt, Min } from 'class-validator';

export class CreateRefundDto {
  /** In minor units of the payment's currency. */
  @IsInt()
  @Min(1)
  amount!: number;
}
