"""What several tests share: problems and networks, the lists of all solvers and kin, engines' cases, scripts for ranks."""
