"""What people install is what was tested: the presets, the unit, the wheel and the single binary."""
