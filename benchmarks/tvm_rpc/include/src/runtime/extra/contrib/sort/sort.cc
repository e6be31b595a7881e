// SPDX-License-Identifier: Apache-2.0
// Takes the place of TVM's sorting on the CPU, whose half-precision header the wheel lacks; nothing here sorts.
